// Package strictconf reads the settings of a collector's component and says all that is
// wrong with them at once. By itself the collector judges values only once every key is
// known and every value can be read.
package strictconf
