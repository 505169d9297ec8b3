package definition

// Size returns the approximate size of the cached tables in bytes and the number of tables.
func (c *Cache) Size() (bytes int64, tables int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.young.size + c.old.size, len(c.young.entries) + len(c.old.entries)
}
