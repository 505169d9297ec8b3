//! Docs: fn not_code() {}
/* nested /* fn commented() {} */ struct Hidden; */
use std::fmt::{self, Display};
pub const LIMIT: usize = 1;
static mut COUNTER: u32 = 0;
pub(crate) struct Point<T> where T: Copy { pub x: T, y: T }
struct Unit;
struct Tuple(u8, u16);
pub enum Shape { Circle { radius: f64 }, Square(f64), Empty = 3 }
union Bits { a: u32, b: f32 }
type Alias<T> = Result<T, Box<dyn std::error::Error>>;
pub trait Area<'a>: Display { const NAME: &'static str; type Output; fn area(&self) -> f64; fn twice(&self) -> f64 { self.area() * 2.0 } }
impl<T> Point<T> { pub const ORIGIN: u8 = 0; pub fn new(x: T, y: T) -> Self { fn helper() {} const LOCAL: u8 = 1; Self { x, y } } }
impl<'a, T: Copy> Area<'a> for Point<T> { const NAME: &'static str = "p"; type Output = T; fn area(&self) -> f64 { 0.0 } }
impl fmt::Display for crate::module::Tuple { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { Ok(()) } }
mod inner { pub mod deeper { pub fn buried() {} } pub(super) async unsafe fn asynchronous() {} }
macro_rules! square { ($x:expr) => { fn in_macro() {} }; }
extern "C" { fn foreign(x: i32) -> i32; static FOREIGN: i32; }
#[derive(Debug)] #[cfg(test)] mod tests { #[test] fn works() { let text = "fn in_string() {}"; let raw = r#"struct "InRaw";"#; let c = 'f'; let life: &'static str = "x"; } }
fn generic<const N: usize, F: Fn(u8) -> u8>(f: F) -> impl Iterator<Item = u8> { let closure = |x| { fn in_closure() {} x }; vec![fn_call!()].into_iter() }
fn r#type() {}
const fn constant() -> u8 { 1 }
