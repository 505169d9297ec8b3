package mount

import (
	"encoding/json"
	"fmt"
	"os"
)

// stderr is the original standard error of the process. The host reads it. go-plugin replaces os.Stderr by a pipe that
// loses the last output of a process.
var stderr = os.Stderr

// logf writes a log entry for the host.
func logf(level, format string, a ...any) {
	b, err := json.Marshal(map[string]string{"@level": level, "@message": fmt.Sprintf(format, a...)})
	if err == nil {
		_, _ = stderr.Write(append(b, '\n'))
	}
}
