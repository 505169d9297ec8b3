//go:build !linux

package sdk

func hardenProcess() {}
