// Command testplugin is the plugin that the host's own tests run: well-behaved by
// default, and faulty in the way its first argument says.
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"toolhost.dev/sdk"
)

// self is which variant of the plugin runs.
var self = readVariant()

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	if m := self["mode"]; m != "" {
		mode = m
	}
	switch mode {
	case "garbage": // prints before the handshake
		fmt.Println("Welcome to my plugin!")
	case "hang": // never shakes hands
		time.Sleep(time.Hour)
	case "slow": // takes its time
		time.Sleep(time.Second)
	case "exit": // ends at once
		fmt.Fprintln(os.Stderr, "cannot open /etc/my-plugin.conf")
		os.Exit(3)
	case "future": // speaks a later protocol
		fmt.Println("1|9|unix|/nowhere|grpc|")
		time.Sleep(time.Hour)
	case "stranger": // has the host dial somewhere else
		fmt.Println("1|2|tcp|127.0.0.1:22|grpc|")
		time.Sleep(time.Hour)
	case "deaf": // shakes hands and never answers
		syscall.CloseOnExec(0)
		deaf()
	case "newer": // wants a later host
		p := plugin()
		p.MinHostVersion = "99.0.0"
		sdk.Serve(p)
	case "undefined": // one tool without a description beside good ones
		p := plugin()
		p.Tools = append(p.Tools, sdk.NewTool(sdk.Definition{Name: "nameless"}, echo))
		sdk.Serve(p)
	case "noisy": // writes everything that could upset a log reader
		for _, line := range []string{
			`{"@message":1}`, `{"@level":7,"@message":"x"}`, `{"@timestamp":[]}`, `{`, "\x00\xff\xfe", strings.Repeat("x", 1<<20),
		} {
			fmt.Fprintln(os.Stderr, line)
		}
	}
	sdk.Serve(plugin())
}

// deaf shakes hands over a socket that nobody accepts on.
func deaf() {
	dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		panic(err)
	}
	path := dir + "/deaf"
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		panic(err)
	}
	if err := syscall.Listen(fd, 1); err != nil {
		panic(err)
	}
	fmt.Printf("1|2|unix|%s|grpc|\n", path)
	time.Sleep(time.Hour)
}
