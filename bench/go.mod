module toolhost.dev/bench

go 1.26

require (
	toolhost.dev/host v0.0.0
	toolhost.dev/sdk v0.0.0
)

replace (
	toolhost.dev/host => ../host
	toolhost.dev/sdk => ../sdk
)
