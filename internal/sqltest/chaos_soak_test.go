//go:build postgres && soak

package sqltest_test

const chaosFlows = 1000
