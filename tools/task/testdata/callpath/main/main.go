// Command main prints the ways of requests. Its arguments are a temporary directory and the directory of the plugins.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"toolhost.dev/host"
	"toolhost.dev/host/internal/callpath"
)

func main() {
	ctx, work := context.Background(), filepath.Join(os.Args[1], "work")
	err := errors.Join(os.Mkdir(work, 0o700), os.WriteFile(filepath.Join(work, "f"), []byte("text\n"), 0o600))
	h, failed := host.New(ctx, host.Options{Workspace: work, StateDir: filepath.Join(os.Args[1], "state"), BundledDir: os.Args[2]})
	if err := errors.Join(err, failed); err != nil {
		log.Fatal(err)
	}
	for _, r := range []host.Request{{Command: "read f"}, {Command: "ls"}, {Name: "read", Arguments: json.RawMessage(`{"file_path":"f"}`)}} {
		if res := h.Run(ctx, r, nil); res.Error != nil { // the first call opens the session and starts the plugin
			log.Fatal(res.Error)
		}
		show(r, callpath.Record(func() { h.Begin(r, nil).Run(ctx) }))
	}
	if err := h.Close(); err != nil {
		log.Fatal(err)
	}
}

// show prints a way. It returns to a file if it enters a function there after it had left the file.
func show(r host.Request, way [][2]string) {
	seen, returns, at, text := make(map[string]bool), 0, "", ""
	for _, e := range way {
		if e[0] != at {
			text += "\n  " + e[0] + ":"
			if seen[e[0]] {
				returns++
			}
		}
		at, seen[e[0]] = e[0], true
		text += " " + e[1]
	}
	fmt.Printf("%s%s %s: %d functions, %d files, %d returns%s\n", r.Command, r.Name, r.Arguments, len(way), len(seen), returns, text)
}
