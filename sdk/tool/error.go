package tool

import (
	"context"
	"errors"
	"fmt"
)

// Kind is the closed set of reasons a call can fail for.
type Kind string

// The kinds. No other is ever given; an unknown one on the wire becomes Internal.
const (
	NotFound         Kind = "not_found"
	InvalidArguments Kind = "invalid_arguments"
	PermissionDenied Kind = "permission_denied"
	Security         Kind = "security"
	Timeout          Kind = "timeout"
	Canceled         Kind = "canceled"
	Unavailable      Kind = "unavailable" // the plugin is down
	Conflict         Kind = "conflict"    // a file is not as the session knows it
	ExecutionFailed  Kind = "execution_failed"
	Internal         Kind = "internal"
)

// KnownKind reports whether a kind is one of them.
func KnownKind(k Kind) bool {
	switch k {
	case NotFound, InvalidArguments, PermissionDenied, Security, Timeout, Canceled, Unavailable, Conflict, ExecutionFailed, Internal:
		return true
	}
	return false
}

// Source says whose failure an [Error] is.
type Source string

// The sources.
const (
	SourceTool   Source = "tool"   // the tool ran and could not do it
	SourceHost   Source = "host"   // the host refused or failed
	SourcePlugin Source = "plugin" // the plugin's process or its protocol failed
)

// Error is a failed call. It is comparable by kind: errors.Is(err, &Error{Kind: NotFound}).
type Error struct {
	Kind Kind `json:"kind"`
	// Code is given by the tool and documented there; 0: none. The nine layers of
	// edit validation are 1 to 9; a shell command's is its exit status.
	Code int `json:"code"`
	// Message says what was wrong and what to do next.
	Message string `json:"message"`
	// Source is filled in by the host.
	Source Source `json:"source,omitempty"`

	cause error
}

// Errorf makes an error of a kind. A %w in the format is kept as its cause.
func Errorf(kind Kind, format string, a ...any) *Error {
	err := fmt.Errorf(format, a...)
	cause := errors.Unwrap(err)
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		cause = errors.Join(several.Unwrap()...)
	}
	return &Error{Kind: kind, Message: err.Error(), cause: cause}
}

// WithCode returns a copy of e with the code set.
func (e *Error) WithCode(code int) *Error {
	c := *e
	c.Code = code
	return &c
}

// WithCause returns a copy of e with the cause set, for a message that does not repeat it.
func (e *Error) WithCause(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// From returns a copy of e with the source set.
func (e *Error) From(s Source) *Error {
	c := *e
	c.Source = s
	return &c
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error of the same kind, and of the same code
// where target has one.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && (t.Code == 0 || t.Code == e.Code)
}

// AsError turns any error into an *Error: one that is wrapped inside it, the end
// of a context as Canceled or Timeout, and anything else as ExecutionFailed.
func AsError(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		if err.Error() == e.Message {
			return e
		}
		return &Error{Kind: e.Kind, Code: e.Code, Source: e.Source, Message: err.Error(), cause: err}
	case errors.Is(err, context.Canceled):
		return &Error{Kind: Canceled, Message: "The call was canceled.", cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Timeout, Message: "The call took longer than it may.", cause: err}
	}
	return &Error{Kind: ExecutionFailed, Message: err.Error(), cause: err}
}
