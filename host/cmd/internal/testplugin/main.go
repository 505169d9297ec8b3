// Command testplugin is the plugin for the tests of the host. It behaves well by default. Its first argument selects a
// fault.
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"toolhost.dev/sdk"
)

// self describes the variant of this plugin binary.
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
	case "garbage": // prints text before the handshake
		fmt.Println("Welcome to my plugin!")
	case "hang": // never sends a handshake
		time.Sleep(time.Hour)
	case "slow": // starts slowly
		time.Sleep(4 * time.Second)
	case "exit": // exits at once
		fmt.Fprintln(os.Stderr, "cannot open /etc/my-plugin.conf")
		os.Exit(3)
	case "future": // announces a newer protocol version
		fmt.Println("1|9|unix|/nowhere|grpc|")
		time.Sleep(time.Hour)
	case "stranger": // announces the address of another server
		fmt.Println("1|2|tcp|127.0.0.1:22|grpc|")
		time.Sleep(time.Hour)
	case "deaf": // sends a handshake and answers no request
		syscall.CloseOnExec(0)
		deaf()
	case "newer": // requires a newer version of the host
		p := plugin()
		p.MinHostVersion = "99.0.0"
		sdk.Serve(p)
	case "undefined": // has a tool without a description
		p := plugin()
		p.Tools = append(p.Tools, sdk.NewTool(sdk.Definition{Name: "nameless"}, echo))
		sdk.Serve(p)
	case "claims": // has the tools in its second argument
		sdk.Serve(claiming(os.Args[2]))
	case "offers": // has prompts and resources
		sdk.Serve(offering())
	case "noisy": // prints lines that are hard to parse
		for _, line := range []string{
			`{"@message":1}`, `{"@level":7,"@message":"x"}`, `{"@timestamp":[]}`, `{`, "\x00\xff\xfe",
			strings.Repeat("x", 1<<20),
		} {
			fmt.Fprintln(os.Stderr, line)
		}
	}
	sdk.Serve(plugin())
}

// deaf sends a handshake for a socket that never accepts a connection.
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
