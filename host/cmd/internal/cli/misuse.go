package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"toolhost.dev/sdk/suggest"
)

// explainArguments replaces cobra's errors about the number of arguments, which name no argument. A check with errors
// of its own keeps them.
func explainArguments(c *cobra.Command) {
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if err == nil || !strings.Contains(err.Error(), "arg(s)") &&
			!strings.HasPrefix(err.Error(), "unknown command ") {
			return err
		}
		usage := strings.TrimSuffix(c.UseLine(), " [flags]")
		for more := args; len(more) < len(args)+3; {
			if more = append(more[:len(more):len(more)], "x"); check(c, more) == nil {
				return fmt.Errorf("an argument is missing; write: %s\nSee %s --help", usage, c.CommandPath())
			}
		}
		return fmt.Errorf("%q is an argument too many; write: %s\nSee %s --help", surplus(c, check, args), usage, c.CommandPath())
	}
}

// surplus returns the first argument with which there are too many.
func surplus(c *cobra.Command, check cobra.PositionalArgs, args []string) string {
	for n := len(args) - 1; n > 0; n-- {
		if check(c, args[:n]) == nil {
			return args[n]
		}
	}
	return args[0]
}

// explainCommand replaces cobra's error for an unknown command of the program. The word is often a tool.
func explainCommand(root *cobra.Command, err error) error {
	var name string
	if _, bad := fmt.Sscanf(err.Error(), "unknown command %q for \"toolhost\"", &name); bad != nil {
		return err
	}
	return errors.New(unknownCommand(root, name) + " To run a tool or a program, write run before it, such as: toolhost run " + runExample(name) + "\nSee toolhost --help")
}

// runExample returns the words to run after "toolhost run".
func runExample(name string) string {
	if strings.ContainsAny(name, " \t\n'\"") {
		return "'COMMAND'"
	}
	return name + " …"
}

// unknownCommand describes an unknown command below c, with a similar known name.
func unknownCommand(c *cobra.Command, name string) string {
	var known []string
	for _, inner := range c.Commands() {
		known = append(known, inner.Name())
	}
	return fmt.Sprintf("there is no command %q.%s", c.CommandPath()+" "+name, suggest.DidYouMean(name, known))
}
