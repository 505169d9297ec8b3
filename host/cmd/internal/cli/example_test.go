package cli_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"toolhost.dev/host/cmd/internal/cli"
)

func ExampleRun() {
	status := cli.Run(context.Background(), []string{"config", "fmt", "-"}, cli.Stdio{
		In: strings.NewReader("bundled=false\n"), Out: os.Stdout, Err: os.Stderr,
	})
	fmt.Println("exit status", status)
	// Output:
	// bundled = false
	// exit status 0
}
