module toolhost.dev/branch

go 1.26.0

require (
	github.com/aymanbagabas/go-udiff v0.4.1
	github.com/bmatcuk/doublestar/v4 v4.10.4
	golang.org/x/sys v0.49.0
	toolhost.dev/sandbox v0.0.0
	toolhost.dev/sdk v0.0.0
)

require (
	github.com/google/jsonschema-go v0.4.3 // indirect
	mvdan.cc/sh/v3 v3.14.1 // indirect
	toolhost.dev/shellscript v0.0.0 // indirect
)

replace toolhost.dev/sandbox => ../sandbox

replace toolhost.dev/sdk => ../sdk

replace toolhost.dev/shellscript => ../shellscript
