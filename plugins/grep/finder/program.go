package finder

import (
	_ "embed"
	"encoding/json"

	"toolhost.dev/sdk/tool"
)

// programJSON describes GNU grep: which of its options the tool has, too, and which not.
//
//go:embed program.json
var programJSON []byte

// gnuGrep decodes [programJSON].
func gnuGrep() *tool.Program {
	p := new(tool.Program)
	if err := json.Unmarshal(programJSON, p); err != nil {
		panic("program.json: " + err.Error()) // the file is embedded, and tests decode it
	}
	return p
}
