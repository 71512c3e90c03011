//! libfabric itself: opened when it is first needed, and never closed.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::error::OfiError;
use crate::raw::{fi_fabric_attr, fi_info, fid_fabric};

/// The name of version 1 of its binary interface, which libfabric 2 still has.
const FILE: &CStr = c"libfabric.so.1";

/// The functions that the library exports. All else goes through tables in its objects.
pub(crate) struct Library {
    pub(crate) getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const fi_info,
        *mut *mut fi_info,
    ) -> c_int,
    pub(crate) freeinfo: unsafe extern "C" fn(*mut fi_info),
    pub(crate) dupinfo: unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
    pub(crate) fabric:
        unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    version: unsafe extern "C" fn() -> u32,
}

/// What the loader says of the last failure.
fn loader_error() -> String {
    // SAFETY: dlerror gives null or a C string that lives until this thread's next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "no reason given".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

/// The address of a function of the library.
fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: `library` is an open library, and `name` ends with a zero.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    match address.is_null() {
        true => Err(loader_error()),
        false => Ok(address),
    }
}

fn open() -> Result<Library, String> {
    // SAFETY: the name ends with a zero. The library's constructors run, as they would if it
    // were linked.
    let library = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(loader_error());
    }
    let [getinfo, freeinfo, dupinfo, fabric, strerror, version] = [
        symbol(library, c"fi_getinfo")?,
        symbol(library, c"fi_freeinfo")?,
        symbol(library, c"fi_dupinfo")?,
        symbol(library, c"fi_fabric")?,
        symbol(library, c"fi_strerror")?,
        symbol(library, c"fi_version")?,
    ];
    // SAFETY: these are the functions of these names, whose types are those of `rdma/fabric.h`
    // and `fi_errno.h`; the library is never closed.
    let library = unsafe {
        Library {
            getinfo: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(
                    u32,
                    *const c_char,
                    *const c_char,
                    u64,
                    *const fi_info,
                    *mut *mut fi_info,
                ) -> c_int,
            >(getinfo),
            freeinfo: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut fi_info)>(
                freeinfo,
            ),
            dupinfo: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
            >(dupinfo),
            fabric: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(
                    *mut fi_fabric_attr,
                    *mut *mut fid_fabric,
                    *mut c_void,
                ) -> c_int,
            >(fabric),
            strerror: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(c_int) -> *const c_char,
            >(strerror),
            version: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(version),
        }
    };
    let needed = crate::raw::VERSION;
    // SAFETY: the function takes nothing and returns a number.
    let found = unsafe { (library.version)() };
    if found < needed {
        return Err(format!(
            "version {} is too old, {} is needed",
            shown(found),
            shown(needed)
        ));
    }
    Ok(library)
}

/// A version for people.
fn shown(version: u32) -> String {
    format!("{}.{}", version >> 16, version & 0xFFFF)
}

impl Library {
    /// The library, opened by the first call.
    ///
    /// # Errors
    /// If it is not installed, or too old.
    pub(crate) fn get() -> Result<&'static Library, OfiError> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(open).as_ref();
        library.map_err(|reason| OfiError::Unavailable {
            reason: reason.clone(),
        })
    }

    /// Its version, such as `1.17`.
    pub(crate) fn version(&self) -> String {
        shown(self.version_number())
    }

    /// Its version: the first number in the upper 16 bits, the second in the lower.
    pub(crate) fn version_number(&self) -> u32 {
        // SAFETY: the function takes nothing and returns a number.
        unsafe { (self.version)() }
    }

    /// The text of an error number, of either sign.
    pub(crate) fn text(&self, number: c_int) -> String {
        // SAFETY: the function takes any number and gives a C string that is never freed.
        unsafe {
            let text = (self.strerror)(number.saturating_abs());
            if text.is_null() {
                return format!("error {number}");
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    /// An error of a call that gives a negative number.
    pub(crate) fn failed(&self, what: &'static str, number: impl Into<i64>) -> OfiError {
        let number = c_int::try_from(number.into()).unwrap_or(c_int::MIN);
        OfiError::Failed {
            what,
            reason: self.text(number),
        }
    }
}

/// A description of an endpoint, its domain and its fabric.
pub(crate) struct Info {
    library: &'static Library,
    pointer: ptr::NonNull<fi_info>,
}

// SAFETY: the description is plain memory that nobody else refers to, except for the handle of
// a connection request, which libfabric lets any thread use.
unsafe impl Send for Info {}

impl Info {
    /// An empty one, to say what is wanted.
    pub(crate) fn empty(library: &'static Library) -> Result<Info, OfiError> {
        // SAFETY: with null it makes a description whose attributes are zero.
        let pointer = unsafe { (library.dupinfo)(ptr::null()) };
        let what = "making a description for libfabric";
        let pointer =
            ptr::NonNull::new(pointer).ok_or_else(|| library.failed(what, -libc::ENOMEM))?;
        Ok(Info { library, pointer })
    }

    /// Takes over what libfabric made.
    ///
    /// # Safety
    /// `pointer` comes from libfabric, to be freed by `fi_freeinfo`, and nobody else frees it.
    pub(crate) unsafe fn from_raw(
        library: &'static Library,
        pointer: *mut fi_info,
    ) -> Option<Info> {
        ptr::NonNull::new(pointer).map(|pointer| Info { library, pointer })
    }

    /// The library that made it.
    pub(crate) fn library(&self) -> &'static Library {
        self.library
    }

    /// For libfabric's functions. Valid as long as this object.
    pub(crate) fn as_ptr(&self) -> *mut fi_info {
        self.pointer.as_ptr()
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: it came from libfabric and is freed once.
        unsafe { (self.library.freeinfo)(self.pointer.as_ptr()) };
    }
}
