package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"toolhost.dev/host/internal/config/internal/diagnose"
)

const (
	// maxSource is the size of a file of a configuration, or of one that the function file gives, in bytes.
	maxSource = 1 << 20
	// maxNested is how deep expressions and blocks may stand in each other, and how many parts and
	// operators an expression may have. The parsers descend for each, and a stack that overflows ends
	// the process: a host would end because of a file that it is to refuse.
	maxNested = 500
)

// parseFile reads and parses a file. What is wrong with it is in the diagnostics.
func parseFile(p *hclparse.Parser, name string) (*hcl.File, hcl.Diagnostics) {
	src, err := readSource(name)
	if err != nil {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: fmt.Sprintf("The file %s cannot be read", name), Detail: diagnose.Capital(err.Error()) + "."}}
	}
	nested, parse := nestedHCL, func() (*hcl.File, hcl.Diagnostics) { return p.ParseHCL(src, name) }
	if strings.HasSuffix(name, ".json") {
		nested, parse = nestedJSON, func() (*hcl.File, hcl.Diagnostics) { return p.ParseJSON(src, name) }
	}
	if at := nested(src, name); at != nil {
		p.AddFile(name, &hcl.File{Bytes: src, Body: hcl.EmptyBody()}) // for the line that is shown
		return nil, hcl.Diagnostics{tooDeep(*at)}
	}
	return parse()
}

func tooDeep(at hcl.Range) *hcl.Diagnostic {
	return diagnose.Problemf(at, "This is nested too deep", "At most %d levels or operators may stand in each other. Put parts of it into locals.", maxNested)
}

// readSource reads a file of a configuration.
func readSource(name string) ([]byte, error) {
	return readRegular(func(flags int) (*os.File, error) { return os.OpenFile(name, flags, 0) })
}

// readRegular reads the file that open gives. A pipe or a device is refused, as it may have no end. The
// errors do not name the file.
func readRegular(open func(flags int) (*os.File, error)) ([]byte, error) {
	f, err := open(os.O_RDONLY | syscall.O_NONBLOCK) // a pipe that nobody writes to does not keep it
	if err != nil {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err == nil && len(text) > maxSource {
		err = fmt.Errorf("it is larger than %d MiB", maxSource>>20)
	}
	return text, err
}
