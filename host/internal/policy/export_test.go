package policy

import (
	"slices"
	"time"

	"toolhost.dev/shellscript"
)

// StoresBirth reports whether the file system stores when a file was created.
func StoresBirth(path string) bool { return !hostFiles{}.Born(path).IsZero() }

// CanDelete reports whether the mode "careful" asks before a script deletes files that existed before the session.
func CanDelete(req *Request) bool {
	a := shellscript.Analyze(textIn(req.Args["command"]), shellscript.Options{Dir: req.Call.Cwd, Home: homeDir()})
	return slices.ContainsFunc(a.Commands, func(c shellscript.Command) bool {
		f := &facts{req: req, c: &c}
		return c.Words[0].Known() && len(f.deleted()) > 0
	})
}

// LimitTime changes the maximum time of a judgement. The function "restore" resets the maximum.
func LimitTime(limit time.Duration) (restore func()) {
	before := maxTime
	maxTime = limit
	return func() { maxTime = before }
}

// LimitOperations changes the maximum number of operations of a judgement. The function "restore" resets the maximum.
func LimitOperations(limit int) (restore func()) {
	before := maxOperations
	maxOperations = limit
	return func() { maxOperations = before }
}

// Fingerprint returns the fingerprint of a program of the host.
func Fingerprint(path string) string { return hostFiles{}.Fingerprint(path) }

// HostOf returns the form of a host that rules use.
func HostOf(host string) string { return hostOf(host) }
