package mount

import (
	"encoding/json"
	"fmt"
	"os"
)

// stderr is where the host reads what the plugin says, to its last word: what go-plugin puts in
// the place of os.Stderr loses what is said at the end.
var stderr = os.Stderr

// logf writes a line for the host's log.
func logf(level, format string, a ...any) {
	b, err := json.Marshal(map[string]string{"@level": level, "@message": fmt.Sprintf(format, a...)})
	if err == nil {
		_, _ = stderr.Write(append(b, '\n'))
	}
}
