//! Values in apertures: loads and stores of plain data, checked.
//!
//! Every peer that may store into an aperture decides which bytes lie there. So only types for
//! which every bit pattern is a valid value can be loaded ([`Pod`]), and each load copies the bytes
//! once. The derives of the crate `bytemuck` check that a structure is such a type.

use core::marker::PhantomData;

use bytemuck::{NoUninit, Pod};

use barewire_fabric::aperture::{AccessError, Memory};

/// Values and arrays of plain data in memory that is shared: in an
/// [`Aperture`](crate::Aperture), a [`RemoteAperture`](crate::RemoteAperture).
///
/// Offsets are in bytes and multiples of the type's alignment. A value of 8 bytes that is
/// aligned to 8 (`u64`, `i64`, `f64`, `[u32; 2]` in a structure of that alignment) is loaded
/// and stored whole, in one order with [`Memory::load`] and [`Memory::store`]; others are
/// copied, so that a load may see a part of a store of the same moment.
///
/// A store fires tripwires as a put does. Numbers lie in the byte order of the machine, which
/// is that of all processes on it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use barewire::{ApertureConfig, Node, Rights, Typed};
///
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Reading {
///     celsius: f32,
///     sensor: u32,
/// }
///
/// let node = Node::new()?;
/// let page = node.export(ApertureConfig::new(4096, Rights::Read))?;
/// page.store_value(8, &Reading { celsius: 21.5, sensor: 4 })?;
/// assert_eq!(page.load_value::<Reading>(8)?.celsius, 21.5);
///
/// // A table: the number of entries, then the entries.
/// let table = page.array::<Reading>(64, 100)?;
/// table.set(7, &Reading { celsius: 19.0, sensor: 7 })?;
/// assert_eq!(table.get(7)?.sensor, 7);
/// assert!(table.get(100).is_err());
/// # Ok(())
/// # }
/// ```
pub trait Typed: Memory {
    /// Loads a value.
    ///
    /// # Errors
    /// [`AccessError::Unaligned`]; [`AccessError::OutOfRange`]; as [`Memory::get`].
    fn load_value<T: Pod>(&self, offset: usize) -> Result<T, AccessError> {
        check_alignment::<T>(offset)?;
        if is_word::<T>() {
            return Ok(bytemuck::cast(self.load(offset)?));
        }
        let mut value = T::zeroed();
        self.get(offset, bytemuck::bytes_of_mut(&mut value))?;
        Ok(value)
    }

    /// Stores a value.
    ///
    /// # Errors
    /// [`AccessError::Unaligned`]; [`AccessError::OutOfRange`]; as [`Memory::put`].
    fn store_value<T: NoUninit>(&self, offset: usize, value: &T) -> Result<(), AccessError> {
        check_alignment::<T>(offset)?;
        if is_word::<T>() {
            return self.store(offset, bytemuck::cast(*value));
        }
        self.put(offset, bytemuck::bytes_of(value))
    }

    /// Loads values that lie one behind the other, in one copy.
    ///
    /// # Errors
    /// As [`Typed::load_value`]; nothing is loaded if they do not all lie inside.
    fn load_values<T: Pod>(&self, offset: usize, into: &mut [T]) -> Result<(), AccessError> {
        check_alignment::<T>(offset)?;
        self.get(offset, bytemuck::cast_slice_mut(into))
    }

    /// Stores values one behind the other, in one copy.
    ///
    /// # Errors
    /// As [`Typed::store_value`]; nothing is stored if they do not all lie inside.
    fn store_values<T: NoUninit>(&self, offset: usize, values: &[T]) -> Result<(), AccessError> {
        check_alignment::<T>(offset)?;
        self.put(offset, bytemuck::cast_slice(values))
    }

    /// A range of this memory as an array of `count` values.
    ///
    /// # Errors
    /// [`AccessError::Unaligned`]; [`AccessError::OutOfRange`] if it does not lie inside.
    fn array<T: Pod>(
        &self,
        offset: usize,
        count: usize,
    ) -> Result<Array<'_, Self, T>, AccessError> {
        check_alignment::<T>(offset)?;
        let len_bytes = count.checked_mul(size_of::<T>());
        let end = len_bytes.and_then(|len| offset.checked_add(len));
        if end.is_none_or(|end| end > self.len_bytes()) {
            return Err(AccessError::OutOfRange {
                offset,
                len_bytes: len_bytes.unwrap_or(usize::MAX),
                aperture_bytes: self.len_bytes(),
            });
        }
        Ok(Array {
            memory: self,
            offset,
            count,
            of: PhantomData,
        })
    }
}

impl<M: Memory + ?Sized> Typed for M {}

/// An array of values in shared memory, got from [`Typed::array`].
pub struct Array<'a, M: ?Sized, T> {
    memory: &'a M,
    offset: usize,
    count: usize,
    of: PhantomData<T>,
}

impl<M: Memory + ?Sized, T: Pod> Array<'_, M, T> {
    /// How many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Where value `index` lies in the aperture, in bytes.
    ///
    /// # Errors
    /// [`AccessError::NoSuchElement`].
    pub fn offset(&self, index: usize) -> Result<usize, AccessError> {
        if index >= self.count {
            return Err(AccessError::NoSuchElement {
                index,
                count: self.count,
            });
        }
        Ok(self.offset + index * size_of::<T>())
    }

    /// Loads value `index`.
    ///
    /// # Errors
    /// [`AccessError::NoSuchElement`]; as [`Typed::load_value`].
    pub fn get(&self, index: usize) -> Result<T, AccessError> {
        self.memory.load_value(self.offset(index)?)
    }

    /// Stores value `index`.
    ///
    /// # Errors
    /// [`AccessError::NoSuchElement`]; as [`Typed::store_value`].
    pub fn set(&self, index: usize, value: &T) -> Result<(), AccessError> {
        self.memory.store_value(self.offset(index)?, value)
    }
}

impl<M: ?Sized, T> core::fmt::Debug for Array<'_, M, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (of, count, offset) = (core::any::type_name::<T>(), self.count, self.offset);
        write!(f, "Array {{ of: {of}, count: {count}, offset: {offset} }}")
    }
}

/// Whether it can be loaded and stored as one word.
const fn is_word<T>() -> bool {
    size_of::<T>() == 8 && align_of::<T>() == 8
}

fn check_alignment<T>(offset: usize) -> Result<(), AccessError> {
    let align_bytes = align_of::<T>();
    if offset % align_bytes == 0 {
        Ok(())
    } else {
        Err(AccessError::Unaligned {
            offset,
            align_bytes,
        })
    }
}
