package pattern

import "context"

var t0 = context.Background()
