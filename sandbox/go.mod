module toolhost.dev/sandbox

go 1.26.0

require (
	golang.org/x/sys v0.49.0
	mvdan.cc/sh/v3 v3.14.1
	toolhost.dev/sdk v0.0.0
	toolhost.dev/shellscript v0.0.0
)

require github.com/google/jsonschema-go v0.4.3 // indirect

replace toolhost.dev/sdk => ../sdk

replace toolhost.dev/shellscript => ../shellscript
