# What toolhost does without a configuration: the bundled plugins that stand
# beside the executable, and the workspace as the only root.

plugin "read" {
  optional = true
}

plugin "edit" {
  optional = true
}

plugin "grep" {
  optional = true
}

plugin "bash" {
  optional = true
}

plugin "ask" {
  optional = true
}

plugin "snippet" {
  optional = true
}
