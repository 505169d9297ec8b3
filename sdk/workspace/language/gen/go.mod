module toolhost.dev/sdk/workspace/language/gen

go 1.26.0

require github.com/go-enry/go-enry/v2 v2.9.6

require github.com/go-enry/go-oniguruma v1.2.1 // indirect
