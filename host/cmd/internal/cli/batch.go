package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"toolhost.dev/host"
	"toolhost.dev/host/batch"
	"toolhost.dev/host/cmd/internal/cli/globals"
	"toolhost.dev/host/cmd/internal/cli/process"
	"toolhost.dev/host/cmd/internal/cli/screen"
)

func newBatch(s *globals.Settings) *cobra.Command {
	var ordered, atomic bool
	c := &cobra.Command{
		Use:   "batch",
		Short: "Run requests from JSON Lines",
		Long: `Read requests from standard input, one JSON object a line: {"id","command"} or
{"id","name","arguments"}, each with an optional "workspace", "session" and "branch". Write a
result line with the id for each request as it ends. A call starts as soon as its line is
read. Calls that are safe at the same time run in parallel; others run alone and in order. The
bundled tools job and ask_user wait only for commands that start a job. {"cancel":ID} cancels the
calls with this id that have no result yet. Changed plugins and configuration files are
applied while the command runs. SIGHUP applies them at once.`,
		Example: `  printf '%s\n' '{"id":1,"command":"read go.mod"}' '{"id":2,"name":"glob","arguments":{"pattern":"*.go"}}' | toolhost batch`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if atomic && s.On != "" {
				return errors.New("--atomic needs a branch, and a session of the fleet has none. Leave out --atomic or --on")
			}
			if atomic {
				return runAtomic(c, s)
			}
			h, err := s.OpenLive(c, host.Options{})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			defer process.WhenUnread(s.Out, cancel)()
			err = batch.Batch{Host: h, Request: s.Request(), Ordered: ordered}.Run(ctx, s.In, screen.New(s.Out))
			return errors.Join(err, h.Close())
		},
	}
	c.Flags().BoolVar(&atomic, "atomic", false, "run the requests one after the other in a branch, and apply their changes only if all of them succeed")
	s.TapeFlag(c)
	s.OnFlag(c)
	c.Flags().BoolVar(&ordered, "ordered", false, "write the results in the order of the requests")
	return c
}

// runAtomic runs the requests in a new branch. If all requests succeed, all changes of the branch are applied to the
// workspace together. Otherwise the workspace stays unchanged.
func runAtomic(c *cobra.Command, s *globals.Settings) error {
	h, err := s.OpenLive(c, host.Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	defer process.WhenUnread(s.Out, cancel)()
	end, err := batch.Batch{Host: h, Request: s.Request()}.RunAtomic(ctx, s.In, screen.New(s.Out))
	if err = errors.Join(err, h.Close()); err != nil {
		return err
	}
	for _, n := range end.Notes {
		fmt.Fprintln(s.Err, "toolhost:", screen.Printable(n))
	}
	switch end.Outcome {
	case batch.Discarded:
		fmt.Fprintf(s.Err, "toolhost: nothing was changed, because line %d failed\n", end.FailedLine)
		return process.ExitError(process.ExitFailure)
	case batch.Kept:
		return end.Error
	}
	fmt.Fprintf(s.Err, "toolhost: applied %s; to undo this: toolhost branch revert %s\n", screen.Count(len(end.Changes), "change"), end.Branch)
	return nil
}
