# find_package(barewire): the targets barewire::barewire (shared) and barewire::barewire-static.
get_filename_component(_barewire_libdir "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_barewire_prefix "${_barewire_libdir}/.." ABSOLUTE)

if(NOT TARGET barewire::barewire)
  add_library(barewire::barewire SHARED IMPORTED)
  set_target_properties(barewire::barewire PROPERTIES
    IMPORTED_LOCATION "${_barewire_libdir}/libbarewire.so"
    IMPORTED_SONAME "libbarewire.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_barewire_prefix}/include")
  add_library(barewire::barewire-static STATIC IMPORTED)
  set_target_properties(barewire::barewire-static PROPERTIES
    IMPORTED_LOCATION "${_barewire_libdir}/libbarewire.a"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m"
    INTERFACE_INCLUDE_DIRECTORIES "${_barewire_prefix}/include")
endif()

unset(_barewire_libdir)
unset(_barewire_prefix)
