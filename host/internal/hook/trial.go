package hook

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"toolhost.dev/sdk/tool"
)

// Trial is the event that the host sends to a new program before it uses the configuration with the hook. The host
// ignores the decision in the answer, but the answer must be valid. Only programs receive the event.
const Trial tool.HookEvent = "trial"

// Exists returns an error if the program of a command cannot be found or executed.
func (c *Command) Exists() error {
	if _, err := exec.LookPath(c.Argv[0]); err != nil {
		return fmt.Errorf("cannot run the hook's program: %w", err)
	}
	return nil
}

// Try sends the event [Trial] to the hook. It returns an error if a call would fail because of the hook.
func (h *Hook) Try(ctx context.Context) error {
	_, err := h.call(ctx, &tool.HookInput{Event: Trial})
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf(`%w. The program must answer the event "trial" with exit status 0; if it must not be run without a call, set trial = false in the hook block`, err)
	}
	return err
}
