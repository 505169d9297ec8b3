package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

func plugin() sdk.Plugin {
	readOnly := sdk.Traits{ReadOnly: true, ConcurrencySafe: true}
	p := sdk.Plugin{
		Name: "testplugin", Version: "1.2.3",
		Config: sdk.NewConfig(configure),
		Hook:   hook,
	}
	for _, t := range self.choose([]named{
		define(sdk.Definition{Name: "echo", Description: "Give the text back.", Traits: readOnly, StdinParameter: "text"}, echo),
		define(sdk.Definition{Name: "fail", Description: "Fail with a kind.", Traits: readOnly}, fail),
		define(sdk.Definition{Name: "nap", Description: "Sleep.", Traits: readOnly}, nap),
		define(sdk.Definition{Name: "digest", Description: "Read a file slowly.", Traits: sdk.Traits{ReadOnly: true, ConcurrencySafe: true, Cacheable: true}}, digest),
		define(sdk.Definition{Name: "traced", Description: "Say which trace the call is in.", Traits: readOnly}, traced),
		define(sdk.Definition{Name: "stubborn", Description: "Sleep, and do not listen to a cancel.", Traits: readOnly}, stubborn),
		define(sdk.Definition{Name: "panic", Description: "Panic."}, panicking),
		define(sdk.Definition{Name: "die", Description: "End the process in the middle of the call."}, die),
		define(sdk.Definition{Name: "dieonce", Description: "End the process, but not a second time.", Traits: readOnly}, dieOnce),
		define(sdk.Definition{Name: "poison", Description: "End the process with each call.", Traits: readOnly}, poison),
		define(sdk.Definition{Name: "big", Description: "Return many bytes.", Traits: sdk.Traits{ReadOnly: self["changes"] == "", ConcurrencySafe: true}}, big),
		define(sdk.Definition{Name: "danger", Description: "Need a confirmation.", Traits: sdk.Traits{Dangerous: true}}, danger),
		define(sdk.Definition{Name: "ask", Description: "Ask for a permission.", Traits: readOnly}, ask),
		define(sdk.Definition{Name: "print", Description: "Print to standard output, and stream.", Traits: readOnly}, printing),
		define(sdk.Definition{Name: "count", Description: "Count the calls of a session."}, count),
		define(sdk.Definition{Name: "exe", Description: "Tell which file the process runs.", Traits: readOnly}, exe),
		define(sdk.Definition{Name: "where", Description: "Tell the process and what it was given.", Traits: readOnly}, where),
		define(sdk.Definition{Name: "off", Description: "A tool that is off.", Traits: sdk.Traits{Disabled: true}}, danger),
	}) {
		p.Tools = append(p.Tools, t.tool)
	}
	self.apply(&p)
	return p
}

var greeting = "hello"

type config struct {
	Greeting string `json:"greeting,omitempty"`
	Limit    int    `json:"limit,omitempty"`
}

func configure(_ context.Context, c config, _ sdk.Setup) error {
	if c.Limit < 0 {
		return &sdk.ConfigError{
			Path: []string{"limit"}, Summary: "The limit is negative.", Detail: "Give a number from 0 on.",
		}
	}
	if c.Greeting != "" {
		greeting = c.Greeting
	}
	return nil
}

type echoArgs struct {
	Text   string   `json:"text" jsonschema:"what to give back"`
	Times  int      `json:"times" jsonschema:"how often" default:"1" min:"1" max:"9"`
	Style  string   `json:"style,omitempty" jsonschema:"how" enum:"plain,loud"`
	Tags   []string `json:"tags,omitempty" jsonschema:"words to add"`
	Quiet  bool     `json:"quiet,omitempty" jsonschema:"say nothing"`
	Weight float64  `json:"weight,omitempty" jsonschema:"a number"`
}

func echo(ctx context.Context, call *sdk.Call, in echoArgs) (*sdk.Result, error) {
	text, err := self.disturb(ctx, call, strings.Repeat(in.Text, in.Times))
	if err != nil {
		return nil, err
	}
	if in.Style == "loud" {
		text = strings.ToUpper(text)
	}
	res := sdk.Text(strings.Join(append([]string{text}, in.Tags...), " "))
	res.Title, res.Data = "Echo", sdk.Data(in)
	res.Metadata = map[string]any{"length": len(text), "attempts": "forged"}
	res.Attachments = []sdk.Attachment{{Type: "file", MediaType: "text/plain", Content: []byte(text)}}
	return res, nil
}

type failArgs struct {
	Kind string `json:"kind" jsonschema:"the kind of error"`
	Code int    `json:"code,omitempty" jsonschema:"its code"`
}

func fail(_ context.Context, _ *sdk.Call, in failArgs) (*sdk.Result, error) {
	if in.Kind == "plain" {
		return nil, errors.New("a plain error")
	}
	return &sdk.Result{Data: sdk.Data(map[string]int{"partial": 1})},
		sdk.Errorf(tool.Kind(in.Kind), "it failed as %s", in.Kind).WithCode(in.Code)
}

type napArgs struct {
	MS     int    `json:"ms" jsonschema:"how long, in milliseconds"`
	Alone  bool   `json:"alone,omitempty" jsonschema:"one call after the other"`
	Marker string `json:"marker,omitempty" jsonschema:"a file that the first call makes; later calls find it and do not sleep"`
}

// bed is the mutex that a call holds while it naps alone.
var bed sync.Mutex

func nap(ctx context.Context, call *sdk.Call, in napArgs) (*sdk.Result, error) {
	call.Progress("napping", map[string]any{"ms": in.MS})
	if in.Alone {
		bed.Lock()
		defer bed.Unlock()
	}
	if in.Marker != "" {
		f, err := os.OpenFile(filepath.Join(call.Cwd, in.Marker), os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return sdk.Text("rested"), nil
		}
		if err != nil {
			return nil, err
		}
		_ = f.Close()
	}
	select {
	case <-time.After(time.Duration(in.MS) * time.Millisecond):
		return sdk.Text("rested"), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type digestArgs struct {
	Path string `json:"path" path:"read" jsonschema:"the file"`
	MS   int    `json:"ms,omitempty" jsonschema:"how long it takes, in milliseconds"`
}

var digests atomic.Int64

// digest returns a result that contains the number of calls so far. Tests use the number to recognize a cached result.
func digest(_ context.Context, call *sdk.Call, in digestArgs) (*sdk.Result, error) {
	if !filepath.IsAbs(in.Path) {
		in.Path = filepath.Join(call.Cwd, in.Path)
	}
	path, err := filepath.EvalSymlinks(in.Path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(in.MS) * time.Millisecond)
	res := sdk.Text(fmt.Sprintf("%d: %s", digests.Add(1), text))
	res.Effects = []tool.Effect{
		{Operation: tool.OpRead, File: tool.FileState{Path: path, Size: int64(len(text)), Hash: sha256.Sum256(text)}},
	}
	return res, nil
}

func traced(_ context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
	return sdk.Text(call.Trace["traceparent"]), nil
}

func stubborn(_ context.Context, _ *sdk.Call, in napArgs) (*sdk.Result, error) {
	time.Sleep(time.Duration(in.MS) * time.Millisecond)
	return sdk.Text("I was not listening"), nil
}

type none struct{}

func exe(context.Context, *sdk.Call, none) (*sdk.Result, error) {
	path, err := os.Executable()
	return sdk.Text(path), err
}

func panicking(context.Context, *sdk.Call, none) (*sdk.Result, error) {
	panic("a bug in the tool")
}

type dieArgs struct {
	Text string `json:"text,omitempty" jsonschema:"any text"`
}

func die(context.Context, *sdk.Call, dieArgs) (*sdk.Result, error) {
	go func() { panic("out of coffee") }()
	select {}
}

type fileArgs struct {
	Marker string `json:"marker" jsonschema:"a file that says it happened already"`
}

func dieOnce(_ context.Context, call *sdk.Call, in fileArgs) (*sdk.Result, error) {
	in.Marker = filepath.Join(call.Cwd, in.Marker)
	if _, err := os.Stat(in.Marker); err == nil {
		return sdk.Text("survived"), nil
	}
	if err := os.WriteFile(in.Marker, nil, 0o600); err != nil {
		return nil, err
	}
	os.Exit(7)
	return nil, nil
}

type poisonArgs struct {
	Text string `json:"text" jsonschema:"any text; abort: end with a report of Go's runtime"`
}

func poison(_ context.Context, _ *sdk.Call, in poisonArgs) (*sdk.Result, error) {
	if in.Text == "abort" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
		select {}
	}
	os.Exit(7)
	return nil, nil
}

type bigArgs struct {
	MB   int    `json:"mb" jsonschema:"how many megabytes"`
	Part string `json:"part,omitempty" jsonschema:"which part of the result is big" enum:"text,data,error,attachment,many,title,streamed"`
}

func big(_ context.Context, call *sdk.Call, in bigArgs) (*sdk.Result, error) {
	text := strings.Repeat("x", in.MB<<20)
	switch in.Part {
	case "data":
		return &sdk.Result{Output: "see the data", Data: sdk.Data(map[string]string{"text": text})}, nil
	case "error":
		return nil, sdk.Errorf(tool.ExecutionFailed, "%s", text)
	case "attachment":
		return &sdk.Result{Output: "see the attachment",
			Attachments: []sdk.Attachment{
				{Type: "file", MediaType: "application/octet-stream", Content: []byte(text + "\xff")},
			}}, nil
	case "many":
		return &sdk.Result{Output: "see the attachments",
			Attachments: slices.Repeat([]sdk.Attachment{{Type: "file", MediaType: "text/plain", Content: []byte("x")}},
				in.MB<<16)}, nil
	case "title":
		return &sdk.Result{Output: "see the title", Title: text, Metadata: map[string]any{"text": text}}, nil
	case "streamed":
		call.Progress(text, map[string]any{"text": text})
		call.Output(tool.Stdout, []byte(text))
		return sdk.Text("streamed"), nil
	}
	return sdk.Text(text), nil
}

func danger(context.Context, *sdk.Call, none) (*sdk.Result, error) { return sdk.Text("done it"), nil }

func ask(ctx context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
	if err := call.Permit(ctx,
		tool.Permission{Kind: "external_directory", Title: "May I?", Patterns: []string{"/etc/hosts"}}); err != nil {
		return nil, err
	}
	return sdk.Text("thank you"), nil
}

func printing(_ context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
	fmt.Println("this must not upset the connection")
	fmt.Fprintln(os.Stderr, `{"@message":1}`)
	call.Output(tool.Stdout, []byte("streamed\n"))
	return sdk.Text("printed"), nil
}

type countArgs struct {
	MS int `json:"ms,omitempty" jsonschema:"how long to take, in ms"`
}

func count(_ context.Context, call *sdk.Call, in countArgs) (*sdk.Result, error) {
	time.Sleep(time.Duration(in.MS) * time.Millisecond)
	n, _ := strconv.Atoi(string(call.SessionState)) // an empty state counts as 0
	n++
	res := sdk.Text(strconv.Itoa(n))
	res.SessionState = []byte(strconv.Itoa(n))
	return res, nil
}

func where(_ context.Context, call *sdk.Call, _ none) (*sdk.Result, error) {
	return sdk.Text(fmt.Sprintf("pid=%d version=%s cwd=%s session=%s greeting=%s secret=%q", os.Getpid(), self["version"], call.Cwd, call.SessionID, greeting,
		os.Getenv("TOOLHOST_TEST_SECRET"))), nil
}
