// Package sqltest tests package sqlstore on real databases. It is a module of its own, because
// the module of sqlstore requires no driver. The tests on PostgreSQL have the build tag postgres.
package sqltest
