declare module "*.binpb" {
  const content: Uint8Array;
  export default content;
}
