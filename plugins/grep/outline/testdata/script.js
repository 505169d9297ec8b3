'use strict'; // function commented() {}
/* class Commented {} */
const text = "function inString() {}", tpl = `class ${function () { const hidden = 1 }} { function inTemplate() {} }`;
const regex = /function inRegex() {}/, division = a / b / c;
function plain(a, { b, c } = {}, ...rest) { var local = 1; function nested() { let x = () => 1; } }
async function* generator() { yield* other(); }
const arrow = (x) => x * 2, asyncArrow = async x => { const inArrow = function named() {}; };
let variable = 1, second;
var old = function () {};
const { one, two: renamed, three = 3, ...others } = require('x');
const [first, , [deep], ...tail] = list;
class Base { }
class Derived extends mixin(Base) {
  static #count = 0;
  field = 1;
  handler = () => { this.x = 1; };
  'quoted name' = 2;
  [computed] = 3;
  constructor() { super(); function inConstructor() {} }
  get value() { return 1; }
  set value(v) { }
  static async *items() { }
  #hidden() { }
  [Symbol.iterator]() { }
  static { const inStatic = 1; }
}
const Expression = class Inner { method() { } };
exports.exported = function () { };
module.exports.other = (x) => x;
Derived.prototype.added = function () { };
exports.value = 3;
const object = { method() { }, property: function () { }, arrow: () => 1, plain: 3, get accessor() { return 1; } };
for (let i = 0; i < 3; i++) { function inLoop() { } }
for (const item of list) { }
if (x) { function conditional() { } }
export const exportedConst = 1;
export function exportedFunction() { }
export default function () { return 1; }
export { plain as alias };
(function () { function wrapped() { } var inWrapper = 1; })();
label: while (1) { }
const jsx = <div onClick={() => { function inJsx() { } }}>function notCode() {'{}'}</div>;
