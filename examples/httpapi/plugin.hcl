# What belongs into toolhost.hcl. The plugin has a network because the block says so.
plugin "httpapi" {
  path = "./bin/httpapi"
  sandbox {
    network = true
  }
  config {
    base_url = "https://api.example.com/v1"
    headers  = { Accept = "application/json" }
  }
}
