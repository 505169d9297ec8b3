package coordinator

import (
	"net"
	"strconv"
)

// clusterOffset is added to the port of a coordinator for the port at which it talks to the other coordinators.
const clusterOffset = 2000

// ClusterAddress returns the address at which a coordinator talks to the others.
func ClusterAddress(address string) string {
	name, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port) // the configuration was checked
	return net.JoinHostPort(name, strconv.Itoa(n+clusterOffset))
}
