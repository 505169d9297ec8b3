package host_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"toolhost.dev/host"
)

// exampleOptions returns options for a workspace with one file. Real programs can omit BundledDir and StateDir. The
// default BundledDir is beside the executable, and the default StateDir is the user's state directory.
func exampleOptions() host.Options {
	bundled, err := plugins()
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	// Configuration and state must be outside of the workspace, because tools can write in the workspace.
	workspace, config := filepath.Join(dir, "workspace"), filepath.Join(dir, "toolhost.hcl")
	if err := os.Mkdir(workspace, 0o700); err != nil {
		log.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(workspace, "notes.txt"): "one\ntwo\nthree\n", config: "bundled = false\nplugin \"read\" {}\n" + unconfined} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	return host.Options{Workspace: workspace, Config: config, StateDir: filepath.Join(dir, "state"), BundledDir: bundled}
}

func ExampleNew() {
	opts := exampleOptions()
	h, err := host.New(context.Background(), opts)
	if err != nil {
		log.Fatal(err) // for an invalid configuration, the error contains file and line
	}
	defer os.RemoveAll(filepath.Dir(opts.Workspace))
	defer h.Close()
	for _, p := range h.Problems() { // a problem does not affect other tools
		fmt.Println("problem:", p)
	}
	for _, t := range h.Tools() {
		fmt.Println(t.FullName, t.Parameters()[0])
	}
	// Output: read file_path
}

func ExampleHost_Run() {
	opts := exampleOptions()
	h, err := host.New(context.Background(), opts)
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(opts.Workspace))
	defer h.Close()

	res := h.Run(context.Background(), host.Request{Command: "read notes.txt --limit 2"}, nil)
	fmt.Println(res.Output)

	res = h.Run(context.Background(), host.Request{Name: "read", Arguments: []byte(`{"file_path":"missing.txt"}`)}, nil)
	fmt.Println(res.Success(), res.Error.Kind, res.Error.Source)
	// Output:
	// one
	// two
	// false not_found tool
}

func ExampleHost_Begin() {
	opts := exampleOptions()
	h, err := host.New(context.Background(), opts)
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(opts.Workspace))
	defer h.Close()

	// Begin queues both calls in the session, before either call runs.
	first := h.Begin(host.Request{Command: "read notes.txt --limit 1"}, nil)
	second := h.Begin(host.Request{Command: "read notes.txt --offset 3"}, nil)
	fmt.Println(first.Native())
	fmt.Println(first.Run(context.Background()).Output)
	fmt.Println(second.Run(context.Background()).Output)
	// Output:
	// false
	// one
	// three
}
