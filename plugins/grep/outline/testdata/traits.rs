//! Traits, impls and macros, one to a line.

use std::collections::HashMap;

pub trait Store<K, V = String>
where
    K: Eq,
{
    type Error;
    const LIMIT: usize = 8;

    fn get(&self, key: &K) -> Option<&V>;
    fn put(&mut self, key: K, value: V) -> Result<(), Self::Error>;
    fn is_empty(&self) -> bool {
        true
    }
}

pub struct Memory<K, V> {
    entries: HashMap<K, V>,
}

pub struct Meters(pub f64);

struct Marker;

pub enum Event<'a, T: 'a> {
    Opened { name: &'a str, count: usize },
    Moved(T, T),
    Closed = 7,
}

pub union Word {
    bytes: [u8; 4],
    number: u32,
}

pub type Outcome<T> = Result<T, String>;

impl<K: Eq + std::hash::Hash, V> Memory<K, V> {
    pub const DEFAULT: usize = 16;

    pub fn new() -> Self {
        fn helper() -> u8 {
            1
        }
        let _ = helper();
        Self { entries: HashMap::new() }
    }

    pub async fn load(&self) -> Outcome<usize> {
        Ok(self.entries.len())
    }

    pub(crate) const unsafe fn raw(&self) -> *const V {
        std::ptr::null()
    }
}

impl<K, V> Store<K, V> for Memory<K, V>
where
    K: Eq + std::hash::Hash,
{
    type Error = String;

    fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    fn put(&mut self, key: K, value: V) -> Result<(), Self::Error> {
        self.entries.insert(key, value);
        Ok(())
    }
}

impl std::ops::Add for Meters {
    type Output = Meters;

    fn add(self, other: Meters) -> Meters {
        Meters(self.0 + other.0)
    }
}

impl<'a, T> From<&'a T> for Event<'a, T> {
    fn from(_: &'a T) -> Self {
        Event::Closed
    }
}

impl<T> Drop for Box2<[T]> {
    fn drop(&mut self) {}
}

pub struct Box2<T: ?Sized>(T);

#[macro_export]
macro_rules! squared {
    ($x:expr) => {
        $x * $x
    };
}

macro_rules! make_type {
    ($name:ident) => {
        struct $name;
    };
}

make_type!(Made);

pub mod outer {
    pub mod inner {
        pub fn deep() {}

        pub struct Deep;
    }

    #[inline]
    #[must_use]
    pub extern "C" fn exported(x: i32) -> i32 {
        x
    }
}

pub fn apply<F, const N: usize>(f: F, values: [u8; N]) -> impl Iterator<Item = u8>
where
    F: Fn(u8) -> u8,
{
    values.into_iter().map(move |v| f(v))
}

pub fn dynamic(s: &dyn Store<u8, u8, Error = ()>) -> bool {
    s.is_empty()
}

unsafe extern "C" {
    fn imported(x: i32) -> i32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares() {
        assert_eq!(squared!(3), 9);
    }
}
