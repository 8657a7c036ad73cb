package testkit

// These files say how a test binary was built: with the race detector, or with the build tags
// soak and slow. Tests read a constant here instead of having a pair of files of their own each.
// .ci/run sets slow; soaks are run by hand.
//
//	go test -tags soak ./elicitation/
//	go test -tags slow ./...
