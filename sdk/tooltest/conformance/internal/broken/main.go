// Command broken is a plugin that does not use the SDK and violates one rule of the protocol. Its argument selects the
// rule. If the argument is missing, it violates no rule.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	toolpb "toolhost.dev/sdk/toolpb/v2"
)

// mode selects the rule that the plugin violates. An empty mode means that it violates no rule.
var mode string

func main() {
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	if os.Getenv("TOOLHOST_PLUGIN") != "6b1f4f4c-toolhost-plugin" && mode != "cookie" {
		fmt.Fprintln(os.Stderr, "This is a plugin for toolhost, which starts it.")
		os.Exit(1)
	}
	if mode == "orphan" {
		time.AfterFunc(time.Hour, func() {})
	} else {
		go watchHost()
	}
	switch mode {
	case "mute":
		select {}
	case "exit":
		fmt.Fprintln(os.Stderr, "there is no configuration")
		os.Exit(3)
	case "chatty":
		fmt.Println("Welcome!")
	}
	dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	network, addr := "unix", filepath.Join(dir, "plugin.sock")
	switch {
	case mode == "tcp":
		network, addr = "tcp", "127.0.0.1:0"
	case mode == "elsewhere" || dir == "":
		tmp, err := os.MkdirTemp("", "br")
		must(err)
		go func() { time.Sleep(5 * time.Second); _ = os.RemoveAll(tmp) }()
		addr = filepath.Join(tmp, "s")
	}
	l, err := net.Listen(network, addr)
	must(err)
	limit := 64 << 20
	if mode == "small" {
		limit = 4 << 20
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(limit), grpc.MaxSendMsgSize(limit))
	toolpb.RegisterPluginServiceServer(s, &plugin{idle: make(chan struct{})})
	version := "2"
	if mode == "future" {
		version = "9"
	}
	fmt.Printf("1|%s|%s|%s|grpc|\n", version, network, l.Addr())
	must(s.Serve(l))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func watchHost() {
	fd, err := strconv.Atoi(os.Getenv("TOOLHOST_LIFELINE_FD"))
	if err != nil {
		return
	}
	syscall.CloseOnExec(fd)
	_, _ = io.Copy(io.Discard, os.NewFile(uintptr(fd), "lifeline"))
	os.Exit(0)
}

const textSchema = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`

func describe() *toolpb.DescribeResponse {
	readOnly := &toolpb.Traits{ReadOnly: true, ConcurrencySafe: true}
	echo := &toolpb.Tool{Name: "echo", Description: "Give the text back.", InputSchema: []byte(textSchema),
		Traits: readOnly, Category: "custom", Examples: []string{"echo hello"}}
	report := &toolpb.Tool{
		Name: "report", Description: "Report.", InputSchema: []byte(`{"type":"object"}`), Traits: readOnly,
		Category:     "custom",
		OutputSchema: []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
	}
	nap := &toolpb.Tool{
		Name: "nap", Description: "Sleep.", Traits: &toolpb.Traits{}, Category: "custom",
		InputSchema: []byte(`{"type":"object","properties":{"seconds":{"type":"integer","minimum":0}},"required":["seconds"]}`),
	}
	d := &toolpb.DescribeResponse{
		Name: "broken", Version: "1.0.0", Tools: []*toolpb.Tool{echo, report, nap},
		ConfigSchema: []byte(`{"type":"object","properties":{"limit":{"type":"integer"}},"additionalProperties":false}`),
	}
	switch mode {
	case "leaky":
		d.Needs = &toolpb.Needs{Secrets: []*toolpb.Secret{{Name: "BROKEN_TOKEN", Need: toolpb.Need_NEED_REQUIRED}}}
	case "demanding":
		d.ConfigSchema = []byte(`{"type":"object","properties":{"limit":{"type":"integer"},"key":{"type":"string"}},"required":["key"],"additionalProperties":false}`)
	case "fickle":
		d.Tools[0].Description += time.Now().String()
	case "pid":
		d.Tools[0].Description += strconv.Itoa(os.Getpid())
	case "nameless":
		d.Tools[1].Description = ""
	case "twice":
		d.Tools = append(d.Tools, report)
	case "versionless":
		d.Version = "latest"
	case "role": // cannot read without the parameter file_path
		echo.Role = "read"
	case "program":
		echo.Program = &toolpb.Program{First: "no such parameter"}
	case "keeps":
		d.Keeps = []*toolpb.Kept{{Kind: "undo", AgeAttribute: "limit"}} // not a string
	case "bad-example":
		echo.Examples = []string{"echo hello --loud"}
	case "dead-example":
		echo.Examples = []string{"echo 'no such file'"}
	}
	if strings.HasPrefix(mode, "shared") {
		d.Capabilities = append(d.Capabilities, "calls")
	}
	return d
}
