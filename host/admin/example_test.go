package admin_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"toolhost.dev/host/admin"
)

func ExampleValidate() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	file := filepath.Join(dir, "toolhost.hcl")
	if err := os.WriteFile(file, []byte("sandbox {\n  workspace = \"writable\"\n}\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	_, err = admin.Validate(admin.Options{Config: file})
	for _, p := range admin.Problems(err) {
		fmt.Printf("line %d: %s. %s\n", p.Line, p.Summary, p.Detail)
	}
	// Output:
	// line 2: "writable" is not allowed here. Use one of read-write, read-only.
}
