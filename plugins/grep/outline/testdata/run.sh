#!/bin/sh
build() { make; }
function test_all {
  local x=1
}
deploy() {
  :
}
