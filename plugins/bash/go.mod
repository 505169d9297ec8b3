module toolhost.dev/plugins/bash

go 1.26

require toolhost.dev/sdk v0.0.0

replace toolhost.dev/sdk => ../../sdk
