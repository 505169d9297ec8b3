package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"toolhost.dev/host/cmd/test/hosttest"
	"toolhost.dev/sdk/tool"
)

// TestErrorCodes checks that the guide lists each kind of error with its code.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../../docs/agents.md")
	hosttest.Must(t, err)
	kinds := []tool.Kind{
		tool.NotFound, tool.InvalidArguments, tool.PermissionDenied, tool.Security, tool.Timeout, tool.Canceled, tool.Unavailable, tool.Conflict, tool.ExecutionFailed, tool.Internal,
	}
	for _, k := range kinds {
		if row := fmt.Sprintf("\n| `%s` | %d | ", k, k.Code()); k.Code() == 0 || !strings.Contains(string(guide), row) {
			t.Errorf("docs/agents.md has no row %q", row)
		}
	}
}
