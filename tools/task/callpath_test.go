package main

import (
	"os"
	"testing"
)

// TestCallpathCompiles checks that the program of callpath still fits the module host.
func TestCallpathCompiles(t *testing.T) {
	r, out := repository(t, nil)
	o := &overlay{task: r, dir: t.TempDir()}
	if err := o.addCallpath(); err != nil {
		t.Fatal(err)
	}
	description, err := o.write()
	if err != nil {
		t.Fatal(err)
	}
	c := r.command(".", []string{"GOWORK="}, "go", "build", "-overlay", description, "-o", os.DevNull, callpathPackage)
	c.Stderr = out
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
