# What belongs into toolhost.hcl. A script needs the files beside it.
plugin "csvinfo" {
  path = "./main.py"
  sandbox {
    read = ["."]
  }
}
