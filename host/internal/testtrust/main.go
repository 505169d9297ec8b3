// Command testtrust trusts the configuration that a test wrote, as the author of the file would. Its arguments are the flags of a
// toolhost command that select a configuration, a workspace and a state directory. If the decision cannot be recorded, for example
// in a directory that cannot be written, it prints the digest, with which the command can trust the content once. It prints no
// errors, because they are those of the command, too.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"toolhost.dev/host"
	"toolhost.dev/host/admin"
)

func main() {
	opts := options(os.Args[1:])
	review, err := admin.ReviewContent(opts)
	if err != nil || !slices.Contains([]string{"untrusted", "operator"}, review.Status) {
		return
	}
	if _, err := admin.TrustContent(opts, review.Digest); err != nil {
		fmt.Println(review.Digest)
	}
}

// options returns the options of a host according to flags.
func options(args []string) (opts host.Options) {
	config := ""
	set := map[string]func(string){
		"--config": func(v string) { config = v }, "--state": func(v string) { opts.StateDir = v }, "--workspace": func(v string) { opts.Workspace = v },
		"--var": func(v string) { opts.Variables = append(opts.Variables, v) }, "--var-file": func(v string) { opts.VariableFiles = append(opts.VariableFiles, v) },
	}
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		if !joined && i+1 < len(args) {
			i++
			value = args[i]
		}
		if set[name] != nil {
			set[name](value)
		}
	}
	opts.Config = admin.FindConfig(config, "", os.Getenv)
	return opts
}
