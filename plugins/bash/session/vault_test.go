package session

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestVault(t *testing.T) {
	login := []string{"EDITOR=vi", "NPM_TOKEN=SeKr3t"}
	whole := State{
		Base: []string{"HOME=/h", "GIT_ASKPASS=/bin/false", "CI_TOKEN=SeKr3t-of-env"}, Login: &login, Last: 3,
		Snapshot: &Snapshot{
			Options: "braceexpand", Umask: "0022", Dirs: []string{"/d"},
			Variables: "declare -x CI_TOKEN=\"SeKr3t-of-env\"\ndeclare -x DB_PASS=\"SeKr3t\\\"\n2\"\ndeclare -x DATABASE_URL=\"pg://u:SeKr3t@h\"\ndeclare -- plain=\"x\"\ndeclare -a list=([0]=\"ghp_SeKr3tSeKr3tSeKr3t\")\ndeclare -x HOME=\"/h\"\n",
			Functions: "f () \n{ \n    PGPASSWORD=SeKr3t psql\n}\n", FunctionFlags: "declare -f f\n",
		},
	}
	var v Vault
	stored := v.Seal("s", whole)
	if bytes.Contains(stored, []byte("SeKr3t")) || !bytes.Contains(stored, []byte(`plain="x"`)) || !bytes.Contains(stored, []byte("GIT_ASKPASS")) {
		t.Errorf("%q", stored)
	}
	got, lost, err := v.Open("s", stored)
	if err != nil || lost != nil || !reflect.DeepEqual(got, whole) {
		t.Errorf("%+v %v %v", got, lost, err)
	}
	again := whole
	again.Last = 0
	if other := v.Seal("s", again); !SameButLast(stored, other) || bytes.Equal(stored, other) {
		t.Error("an equal state has another form")
	}
	changed := *whole.Snapshot
	changed.Variables = strings.Replace(changed.Variables, "SeKr3t@", "SeKr3t-new@", 1)
	if other := v.Seal("s", State{Base: whole.Base, Login: whole.Login, Last: 3, Snapshot: &changed}); SameButLast(stored, other) {
		t.Error("another secret has the same form, so a prepared shell would have the old one")
	}
	// Neither another process nor another session can restore the secrets from the stored state.
	for name, open := range map[string]func() (State, []string, error){
		"process": func() (State, []string, error) { return new(Vault).Open("s", stored) },
		"session": func() (State, []string, error) { return v.Open("other", stored) },
	} {
		got, lost, err := open()
		if err != nil || !slices.Equal(lost, []string{"DB_PASS", "DATABASE_URL", "list", "(functions)"}) || got.Last != 3 || got.Snapshot.Dirs[0] != "/d" || got.Withheld.ID != "" {
			t.Errorf("%s: %+v %q %v", name, got, lost, err)
		}
		if _, lost, _ := new(Vault).Open("s", got.Encode()); lost != nil {
			t.Errorf("%s: it is said twice: %q", name, lost)
		}
	}
	plain := State{Base: []string{"HOME=/h"}, Snapshot: &Snapshot{Umask: "0022", Variables: "declare -- PWD=\"/a\"\n"}}
	if !bytes.Equal(v.Seal("s", plain), plain.Encode()) {
		t.Error("a state without secrets changed")
	}
}

func TestVaultIsBounded(t *testing.T) {
	var v Vault
	for i := range maxVaultSessions + 10 {
		for k := range maxSealed + 2 {
			v.Seal(fmt.Sprint(i), State{Base: []string{fmt.Sprint("A_TOKEN=", k)}})
		}
	}
	if len(v.sessions) != maxVaultSessions || len(v.order) != maxVaultSessions || len(v.sessions["500"]) != maxSealed {
		t.Error(len(v.sessions), len(v.order), len(v.sessions["500"]))
	}
}
