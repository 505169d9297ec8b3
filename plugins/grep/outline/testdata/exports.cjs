module.exports = function generateLimits(it) {
  function inner() {}
};
module.exports.other = function named() {};
exports.third = () => 1;
