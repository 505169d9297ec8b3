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
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "toolhost.hcl")
	if err := os.WriteFile(file, []byte("sandbox {\n  workspace = \"read-onyl\"\n}\n"), 0o600); err != nil {
		log.Fatal(err)
	}

	_, err = admin.Validate(admin.Options{Config: file})
	for _, p := range admin.Problems(err) {
		fmt.Printf("line %d: %s. %s\n", p.Line, p.Summary, p.Detail)
	}
	// Output:
	// line 2: "read-onyl" is not allowed here. Use one of read-write, read-only. Did you mean "read-only"?
}
