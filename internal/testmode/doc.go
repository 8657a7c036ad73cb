// Package testmode says how a test binary was built: with the race detector, or with the build tag
// soak. Tests read a constant here instead of having a pair of files of their own each.
//
//	go test -tags soak ./elicitation/
package testmode
