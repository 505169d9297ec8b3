# class Commented
module Outer
  class Inner < Base
    CONST = 1
    def method?(x) = x
    def self.build!; end
  end
end
class Outer::Other; end
