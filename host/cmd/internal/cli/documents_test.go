package cli

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCommandsInDocuments checks that each toolhost command in the documents exists, with its flags. It also covers
// commands that the tests of the guides do not run.
func TestCommandsInDocuments(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../../../../README.md", "../../../scaffold/files/*/README.md", "../../../../examples/*/README.md", "../../../../docs/checklists/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, more...)
	}
	inline := regexp.MustCompile("`(toolhost [^`\n]*)`")
	block := regexp.MustCompile("(?ms)^```(?:sh|console)\n(.*?)^```$")
	line := regexp.MustCompile(`(?m)^(?:\$ |[A-Z_]+=\S+ |bin/)?(toolhost [^#\n|>&;]*)`)
	quoted := regexp.MustCompile(`'[^']*'|"[^"]*"`)
	checked := 0
	for _, path := range documents {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := inline.FindAllStringSubmatch(string(b), -1)
		for _, m := range block.FindAllStringSubmatch(string(b), -1) {
			found = append(found, line.FindAllStringSubmatch(m[1], -1)...)
		}
		for _, m := range found {
			checked++
			if err := checkCommand(strings.Fields(quoted.ReplaceAllString(m[1], "ARGUMENT"))[1:]); err != nil {
				t.Errorf("%s: %s: %v", path, strings.TrimSpace(m[1]), err)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands were checked", checked)
	}
}

// checkCommand returns an error if a command or one of its flags does not exist. It does not check arguments.
func checkCommand(words []string) error {
	root := newRoot(Stdio{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("x")
	at := root
	for _, w := range words {
		w = strings.Trim(w, "\"'.,:…[]()")
		name, isFlag := strings.CutPrefix(w, "--")
		switch {
		case isFlag && name != "":
			name, _, _ = strings.Cut(name, "=")
			known := false
			lookUp := func(f *pflag.Flag) {
				known = known || f.Name == name || slices.Contains(strings.Split(name, "|"), f.Name)
			}
			at.Flags().VisitAll(lookUp)
			at.InheritedFlags().VisitAll(lookUp)
			root.PersistentFlags().VisitAll(lookUp)
			if !known && name != "help" && name != "version" {
				return errors.New("there is no flag --" + name)
			}
		case at.HasSubCommands():
			var next *cobra.Command
			for _, alternative := range strings.Split(w, "|") {
				for _, c := range at.Commands() {
					if c.Name() == alternative || c.HasAlias(alternative) {
						next = c
					}
				}
			}
			if next == nil && regexp.MustCompile(`^[a-z]+$`).MatchString(w) && !at.Runnable() {
				return errors.New("there is no command " + at.CommandPath() + " " + w)
			}
			if next == nil {
				return nil
			}
			at = next
		}
	}
	return nil
}
