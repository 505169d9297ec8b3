package recording

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"toolhost.dev/sdk/tape"

	"toolhost.dev/host/internal/engine"
)

// replayPlugin is the bundled plugin that answers calls from a tape.
const replayPlugin = "replay"

// ConfigFromTape writes a configuration whose tools are those of a tape and whose calls are answered from it. The caller
// must call remove after the host was closed.
func ConfigFromTape(path string) (config string, remove func(), err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	t, err := tape.Open(path)
	if err != nil {
		return "", nil, err
	}
	if len(t.Tools) == 0 {
		return "", nil, fmt.Errorf("the tape %s has no calls, so there is nothing to answer", path)
	}
	f := hclwrite.NewEmptyFile()
	f.Body().SetAttributeValue("bundled", cty.False)
	seen := make(map[string]bool)
	for _, v := range t.Tools {
		if seen[v.Plugin] {
			continue
		}
		seen[v.Plugin] = true
		b := f.Body().AppendNewBlock("plugin", []string{"tape-" + v.Plugin}).Body()
		b.SetAttributeValue("path", cty.StringVal(filepath.Join(engine.BundledDir(), replayPlugin)))
		b.SetAttributeValue("args", texts("--tape", path, "--plugin", v.Plugin, "--sum", t.Sum))
		if v.Namespace != "" {
			b.SetAttributeValue("field", cty.StringVal(v.Namespace))
		}
		s := b.AppendNewBlock("sandbox", nil).Body()
		s.SetAttributeValue("roots", cty.StringVal("read-only"))
		s.SetAttributeValue("read", texts(path))
	}
	dir, err := os.MkdirTemp("", "toolhost-tape-*")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // a temporary directory
	config = filepath.Join(dir, "toolhost.hcl")
	if err := os.WriteFile(config, f.Bytes(), 0o600); err != nil {
		remove()
		return "", nil, err
	}
	return config, remove, nil
}

func texts(all ...string) cty.Value {
	var out []cty.Value
	for _, s := range all {
		out = append(out, cty.StringVal(s))
	}
	return cty.ListVal(out)
}
