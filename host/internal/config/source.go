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
	// maxSource is the maximum size in bytes of a configuration file, and of a file that the function "file" reads.
	maxSource = 1 << 20
	// maxNested limits the nesting depth of expressions and blocks. It also limits the number of parts and operators in
	// an expression, because the parsers recurse for each part. Without the limit, an invalid file could end a running
	// host by a stack overflow.
	maxNested = 500
)

// parseFile reads and parses a file. The diagnostics describe all problems.
func parseFile(p *hclparse.Parser, name string) (*hcl.File, hcl.Diagnostics) {
	src, err := readSource(name)
	if err != nil {
		return nil, hcl.Diagnostics{
			{Severity: hcl.DiagError, Summary: fmt.Sprintf("The file %s cannot be read", name),
				Detail: diagnose.Capital(err.Error()) + "."},
		}
	}
	nested, parse := nestedHCL, func() (*hcl.File, hcl.Diagnostics) { return p.ParseHCL(src, name) }
	if strings.HasSuffix(name, ".json") {
		nested, parse = nestedJSON, func() (*hcl.File, hcl.Diagnostics) { return p.ParseJSON(src, name) }
	}
	if at := nested(src, name); at != nil {
		p.AddFile(name, &hcl.File{Bytes: src, Body: hcl.EmptyBody()}) // diagnostics need the text to show the affected line
		return nil, hcl.Diagnostics{tooDeep(*at)}
	}
	return parse()
}

func tooDeep(at hcl.Range) *hcl.Diagnostic {
	return diagnose.Problemf(at, "This is nested too deep", "At most %d levels or operators can be nested. Move parts of the expression into locals.", maxNested)
}

// readSource reads a configuration file.
func readSource(name string) ([]byte, error) {
	return readRegular(func(flags int) (*os.File, error) { return os.OpenFile(name, flags, 0) })
}

// readRegular reads the file that the function "open" returns. It rejects pipes and devices, because their content can
// be endless. Its errors do not contain the file name.
func readRegular(open func(flags int) (*os.File, error)) ([]byte, error) {
	f, err := open(os.O_RDONLY | syscall.O_NONBLOCK) // O_NONBLOCK prevents waiting for the writer of a pipe
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
