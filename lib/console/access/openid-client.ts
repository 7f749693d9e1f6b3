// A file of its own in a function, which is read only where the directory is asked.
export * from 'openid-client';
