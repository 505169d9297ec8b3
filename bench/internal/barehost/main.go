// Command barehost starts the bare plugin at the given path, makes one call and exits. The duration of this program is
// a lower bound for a cold start.
package main

import (
	"context"
	"fmt"
	"os"

	"toolhost.dev/bench/internal/bare"
)

func main() {
	c, err := bare.Start(os.Args[1])
	if err == nil {
		_, err = c.Unary(context.Background(), []byte("hello"))
		c.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
